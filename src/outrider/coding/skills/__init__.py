"""The skills of users, projects and plugins."""
