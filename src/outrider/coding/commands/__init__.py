"""Commands of users, projects and plugins: Markdown files that become prompts."""
