"""The main job: a byte-level GPT on real text, trained three ways on the same mesh. `../train.py` is its command line."""
