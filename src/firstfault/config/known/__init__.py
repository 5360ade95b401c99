"""Tables of the settings that programs know, as data with their source and version."""
