"""A task file with every section, and how errors begin that name a place in one."""

import re

LOCATED = re.compile(r"\A<string>:[1-9]\d*:[1-9]\d*: \S")

TASK = """(define (problem Demo_Tabletop)
  (:domain robosuite)
  (:language Put the Cup  on the
    plate, gently)
  (:regions
    (left (:target table_1) (:ranges ((-0.1 0 0.1 .2) (0 0 1 1))) (:yaw_rotation ((-pi/2 pi))) (:rgba (1 0 0 0.5)))
    (top_side (:target stove_1))
    (left (:target table_1) (:ranges ((0 0 0 0))))
    (spare (:target gone_1)))
  (:fixtures table_1 - table  stove_1 - flat_stove)
  (:objects Cup_1 cup_2 - cup plate_1 - plate)
  (:moving_objects
    (cup_1 (:motion_type linear) (:motion_period 125) (:motion_travel_dist 0.5) (:motion_direction (1 -1 0)))
    (cup_2 (:motion_type waypoint) (:motion_dt 0.5) (:motion_loop false)
      (:motion_waypoints (((0 0 1) (0 1 0)) ((0 0.5 1) (0 -1 0))))))
  (:obj_of_interest cup_1 mug_9)
  (:init (On cup_1 table_1_left) (On cup_2 plate_1) (Turnon stove_1))
  (:goal (And (On cup_1 plate_1) (In cup_2 stove_1_top_side)) (Not (On cup_2 table_1_left)))
  (:cost (Fall cup_1) (CheckGripperDistancePart cup_2 (13 0) 0.01) (CheckDistance cup_1 cup_2 1e-2))
  (:image_settings brightness 0.4 temperature 5000)
  (:noise gaussian 0 0.085)
  (:camera agentview 0.1 0 -0.05 robot0_eye_in_hand frontview)
  (:random_color True)
)
"""
