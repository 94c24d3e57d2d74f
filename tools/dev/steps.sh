# Sourced by tools/test and .ci/run: named, timed steps.
#   step NAME COMMAND...   runs it, prints name and duration; a failure is remembered and the next steps still run
#   required_step ...      the same, but a failure ends the script
#   failed_steps           the names of those that failed, empty if none
failed_steps=""

step() {
  local name=$1 start=$SECONDS status=0
  shift
  printf -- '--- %s\n' "$name"
  # In a subshell of its own with errexit on: in the left side of `||` bash would otherwise ignore failures inside a function.
  set +e
  (set -e && "$@")
  status=$?
  set -e
  if ((status == 0)); then
    printf -- '--- %s: done in %d s\n' "$name" $((SECONDS - start))
  else
    printf -- '--- %s: FAILED (status %d) after %d s\n' "$name" "$status" $((SECONDS - start))
    failed_steps+="${failed_steps:+, }$name"
  fi
  return 0
}

required_step() {
  step "$@"
  if [[ -n $failed_steps ]]; then
    exit 1
  fi
}

cores() { nproc 2>/dev/null || echo 2; }
