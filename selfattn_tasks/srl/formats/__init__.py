"""The file formats of semantic roles, and the tags and brackets in which they write spans."""
