"""PushT and ALOHA's two tasks as lerobot evaluates them."""
