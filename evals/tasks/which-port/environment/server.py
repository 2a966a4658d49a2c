"""The service: python3 server.py --profile NAME"""

import argparse
from http.server import HTTPServer, SimpleHTTPRequestHandler

from settings import listen_address


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile", default="production")
    arguments = parser.parse_args()
    HTTPServer(listen_address(arguments.profile), SimpleHTTPRequestHandler).serve_forever()


if __name__ == "__main__":
    main()
