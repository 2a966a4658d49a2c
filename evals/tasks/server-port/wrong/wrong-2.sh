# Loses the comments.
python3 - <<'END'
import configparser

settings = configparser.ConfigParser()
settings.read("app.ini")
settings["server"]["port"] = "9090"
with open("app.ini", "w") as file:
    settings.write(file)
END
