"""Messages and files in the forms that APIs take."""
