"""A task without fault, and what makes others of it."""

TASK = """(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language Put the butter on the plate)
  (:regions
    (left (:target main_table) (:ranges ((-0.1 -0.1 0.1 0.1))))
    (right (:target main_table) (:ranges ((-0.1 0.2 0.1 0.4))))
    (back (:target main_table) (:ranges ((-0.2 -0.4 0 -0.3))))
    (top_region (:target wooden_cabinet_1))
    (middle_region (:target wooden_cabinet_1))
  )
  (:fixtures main_table - table wooden_cabinet_1 - wooden_cabinet)
  (:objects butter_1 - butter plate_1 - plate)
  (:obj_of_interest butter_1 plate_1)
  (:init (On butter_1 main_table_left) (On plate_1 main_table_right) (On wooden_cabinet_1 main_table_back))
  (:goal (And (On butter_1 plate_1)))
  (:cost (And (Fall plate_1)))
)
"""


def changed(*edits: str) -> str:
    """`TASK` with each ``OLD => NEW`` done; what stands there must be there once."""
    text = TASK
    for edit in edits:
        old, new = edit.split(" => ")
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text
