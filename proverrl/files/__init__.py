"""Reading and writing files: text, JSON, checksums, errors of the disk, shipped files."""
