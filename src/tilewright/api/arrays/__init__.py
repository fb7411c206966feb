"""Arrays of other libraries: where their elements lie, and how to make a new one."""
