/* The two ends of the link: libasyncmesh/core/link.cc and link_messages.cc. Part of lane.pml. */

inline offer() {
  in_open = true;
  owed = true;
#ifdef RESUMES_AT_RELEASED
  control[WRITER]!Offer, epoch[READER], r_released + 1, 0
#else
  control[WRITER]!Offer, epoch[READER], r_next, 0
#endif
}

inline open_link(me) {
  assert(epoch[me] <= EPOCHS); /* else the protocol itself makes faults */
  state[me] = Open;
  control[1 - me]!Hello, epoch[me], 0, 0;
  if
  :: me == READER && ported[READER] && wanted -> offer()
  :: else
  fi
}

inline close_link(me) {
  if
  :: me == WRITER -> close_writer()
  :: else -> close_reader()
  fi
}

inline back_off(me) {
  epoch[me]++;
  state[me] = Backoff
}

inline suspend(me) {
  close_link(me);
  state[me] = Suspended
}

inline resume_link(me) {
  if
#ifdef RESUMES_TO_IDLE
  :: epoch[me] == 0 -> state[me] = Idle
#else
  :: epoch[me] == 0 && !ported[me] -> state[me] = Idle
  :: epoch[me] == 0 && ported[me] -> epoch[me] = 1; open_link(me)
#endif
  :: else -> epoch[me]++; open_link(me)
  fi
}

inline add_port(me) {
  ported[me] = true;
  if
  :: state[me] == Idle -> epoch[me] = 1; open_link(me)
  :: state[me] == Open && me == READER && wanted -> offer()
  :: else
  fi;
  if
  :: me == WRITER -> control[READER]!Want, 0, 0, 0
  :: else
  fi
}

inline on_hello(me) {
  if
  :: at < epoch[me]
#ifdef IGNORES_EQUAL_HELLO
  :: at == epoch[me]
#else
  :: at == epoch[me] && state[me] == Backoff -> open_link(me)
  :: at == epoch[me] && state[me] != Backoff
#ifdef ANSWERS_EVERY_HELLO
     -> control[1 - me]!Hello, at, 0, 0
#endif
#endif
  :: at > epoch[me] && state[me] == Suspended -> epoch[me] = at
  :: at > epoch[me] && state[me] != Suspended -> close_link(me); epoch[me] = at; open_link(me)
  fi
}

inline on_message(me) {
  if
  :: type == Hello -> on_hello(me)
  :: type == Want && ported[READER] && state[READER] == Open -> wanted = true; offer()
  :: type == Want && !(ported[READER] && state[READER] == Open) -> wanted = true
  :: type == Offer && at == epoch[WRITER] && state[WRITER] == Open -> open_writer(a)
  :: type == Probe && at == epoch[READER] -> control[WRITER]!State, at, r_next - 1, r_released
  :: type == State && at == epoch[WRITER] -> on_credit(a, b)
  :: else /* of an epoch that this end has left */
  fi
}

inline probe() { control[READER]!Probe, epoch[WRITER], 0, 0 }

proctype link(bit me) {
end:
  do
  :: d_step { !ported[me] -> add_port(me) }
  :: d_step { state[me] == Backoff -> open_link(me) }
  :: d_step { state[me] == Suspended -> resume_link(me) }
  :: d_step { nempty(control[me]) -> control[me]?type, at, a, b; on_message(me) }
  /* A fault that this end saw or believes to have seen; or a link that would not open. */
  :: d_step { resets > 0 && (state[me] == Open || state[me] == Backoff) ->
              resets--; close_link(me); back_off(me) }
  :: d_step { resets > 0 && state[me] != Suspended -> resets--; suspend(me) }
  od
}
