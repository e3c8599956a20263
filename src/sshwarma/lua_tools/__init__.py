"""Tools that people write in Lua: run in processes of their own."""
