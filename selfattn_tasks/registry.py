"""All tasks, by the name that grid files and ``--task`` take."""

from .sentences.task import Sentences
from .srl.task import SRL
from .task import Task
from .translation.task import Translation

# The first takes any text; of a file of unknown kind, the last is asked first.
TASKS: dict[str, Task] = {task.name: task for task in (Translation(), SRL(), Sentences())}
