"""Why a policy fails: its actions beside demonstrations, under the wirings that people get wrong."""
