"""A policy's module that does as it is told, and LIBERO-Para's CSV with three paraphrases of what it listens to."""

# Goes to the goal line only where it is told so.
LISTENING = """
import numpy as np

def policy(episode):
    with open("told.txt", "a") as log:
        print(episode.case_id, "|", episode.instruction, file=log)
    listens = episode.instruction == "turn on the stove"
    return lambda observation: np.tile([1.0 if listens else 0.0, 0, 0, 0, 0, 0, -1], (50, 1))
"""

HEADER = "high,mid,low,eval,batch_idx,new_instruction,original_instruction,structural_similarity,keyword_similarity\n"
ROWS = (
    "act,lexical,addition_deletion,9,0,kindly turn on the stove,turn on the stove,0.9,1.0\n"
    "obj,lexical,addition_deletion,9,0,turn on the gas stove,turn on the stove,0.9,0.9\n"
    "obj,lexical,addition_deletion,9,1,turn on the hot stove,turn on the stove,0.8,0.9\n"
)
