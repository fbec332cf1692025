#!/bin/bash
# A selection as an array of COUNT tasks, and a job that merges them: bash submit.sh COUNT OPTIONS_OF_PYTEST...
set -eu
count=$1
shift
here=$(dirname "$0")
folder=".vla/jobs/$(date +%Y%m%d-%H%M%S)-$$"
job=$(sbatch --parsable --array="1-$count" "$here/array.sbatch" "$folder" "$count" "$@")
# afterany: also where a task failed; what is missing is told with the command that runs it.
sbatch --dependency="afterany:$job" --job-name=vla-merge --wrap "pytest-vla merge $folder -o .vla"
