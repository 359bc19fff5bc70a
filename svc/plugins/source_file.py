"""Drop-in: the discovery source ``file``."""

from svc.connector.sources.file import FileSource

SOURCE = FileSource()
