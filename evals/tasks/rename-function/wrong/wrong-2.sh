# The program works, but the old name is still used.
sed 's/def get_user(/def load_user(/' users.py >changed && mv changed users.py
echo 'get_user = load_user' >>users.py
