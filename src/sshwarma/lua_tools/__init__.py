"""Tools that people made: carried out in processes of their own."""
