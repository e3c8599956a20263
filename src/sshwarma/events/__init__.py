"""What happens in rooms, in one form for doors of programs and for hooks."""
