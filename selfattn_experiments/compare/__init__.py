"""Is a system better than another? Several runs of each, compared with honest statistics.

``compare`` does it all; ``run_level`` holds the tests in which a run is one observation,
``sentence_level`` those in which a sentence is one, ``planning`` says what a number of runs can
detect, ``simulation`` shows how often each test is wrong.
"""
