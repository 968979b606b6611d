#!lua flags=no-writes
return backlog()
