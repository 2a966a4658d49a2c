# Renames get_users and get_user_agent, too.
for file in users.py orders.py mail.py; do
    sed 's/get_user/load_user/g' "$file" >changed && mv changed "$file"
done
