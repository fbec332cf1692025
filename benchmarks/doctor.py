"""How long the doctor takes if an answer takes 50 ms, for tiny as it is and with turned pictures.

python benchmarks/doctor.py
"""

import time
from typing import Any

from pytest_vla import diagnose
from pytest_vla.doctor.diagnosis import WiringProposal
from pytest_vla.doctor.wirings import picture_wirings
from pytest_vla.policies.base import one_by_one
from pytest_vla.policies.load import load_policy

tiny: Any = load_policy("tiny")
answer, tiny.max_batch = tiny.act, 1
tiny.act = lambda sessions, seen: (time.sleep(0.05 * len(sessions)), answer(sessions, seen))[1]
turned = WiringProposal((picture_wirings(tiny.reads)[0],)).wrap(one_by_one(tiny))
for name, policy in {"as it is": tiny, "turned": turned}.items():
    began = time.perf_counter()
    found = diagnose(policy, episodes=5).diagnosis
    codes = ", ".join(each.code for each in found.findings)
    print(f"{name}: {codes}, {found.questions} questions, {time.perf_counter() - began:.0f} s", flush=True)
