"""The API of the admin port: keys, projects, the audit log, usage. All of it asks for `admin`."""
