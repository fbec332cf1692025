"""LIBERO-Para's files: its CSV of paraphrases, the real one and rows of it, and an episode of a log."""

from pathlib import Path

import pytest

from pytest_vla.language.published import FILE
from tests.support.data import data_root

HEADER = "high,mid,low,eval,batch_idx,new_instruction,original_instruction,structural_similarity,keyword_similarity"
ROWS = [
    "act,lexical,addition_deletion,0,0,Gently open  it,open it,0.75,1.0000001192092896",
    "obj,lexical,same_polarity_habitual,0,0,open the thing,open it,0.5,0.4",
    "comp,lexical+pragmatical,addition_deletion+hint,1,3,the box is shut,open the box,0.25,0.0",
]


def published_csv() -> Path:
    """The real CSV; skips the test where it is absent."""
    root = data_root()
    if root is None or not (root / "libero_para" / FILE).is_file():
        pytest.skip("needs LIBERO-Para's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "libero_para" / FILE


EPISODE = {
    "task_id": 0,
    "bddl_file": "comp_lexical+pragmatical_addition_deletion+hint_eval1_ver3.bddl",
    "paraphrase_type": "comp",
    "categories": ["lexical", "pragmatical"],
    "subcategories": ["addition_deletion", "hint"],
    "variant_id": 3,
    "paraphrased_instruction": "The box is shut",
    "success": True,
    "num_steps": 127,
    "replay_video_path": "",
    "initial_state_idx": 0,
    "episode_idx": 0,
}
