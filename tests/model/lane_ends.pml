/* The two ends of the lane: libasyncmesh/lane/lane_writer.cc and lane_reader.cc. Part of lane.pml. */

/* ================================ LaneWriter ================================ */

inline drop_done() {
  do
#if defined(FORGETS_ON_SENT)
  :: w_oldest <= w_sent && !(on_wire & bit(w_oldest)) -> w_oldest++
#elif defined(FORGETS_ON_CREDIT)
  :: w_oldest <= w_released -> w_oldest++
#else
  :: w_oldest <= w_released && !(on_wire & bit(w_oldest)) -> w_oldest++
#endif
  :: else -> break
  od
}

/* From here on copies of the frame are in the network's hands, whatever becomes of the epoch. One
 * for an arena that the reader has left can only do harm at once or never, since slots of such an
 * arena are never filled again: it is looked at here and not kept (LATE_COPIES: it is kept). */
inline send_frame(sequence) {
  assert(sequence >= w_oldest && buffer[(sequence) % BUFFERS] == sequence);
  on_wire = on_wire | bit(sequence);
  w_sent = larger(sequence, w_sent);
#ifdef LATE_COPIES
  flying = flying | copy_of(epoch[WRITER], sequence)
#else
  if
  :: in_open && epoch[READER] == epoch[WRITER] ->
     flying = flying | copy_of(epoch[WRITER], sequence)
  :: else -> assert(frame_at(epoch[WRITER], sequence) == 0)
  fi
#endif
}

inline append() {
  assert(w_next <= BUFFERS || !(on_wire & bit(w_next - BUFFERS)));
  buffer[w_next % BUFFERS] = w_next;
  w_next++;
  if
  :: out_open -> send_frame(w_next - 1)
  :: else
  fi
}

inline close_writer() {
  out_open = false;
  on_wire = 0;
  drop_done()
}

inline open_writer(resume) {
  close_writer();
  assert(resume > w_received && resume <= w_sent + 1); /* else kMismatch: the lane would fail */
  out_open = true;
  w_received = resume - 1;
  probed = false;
#ifdef NO_REPLAY
  k = w_sent + 1;
#else
  k = resume;
#endif
  do
  :: k < w_next -> send_frame(k); k++
  :: else -> break
  od
}

inline on_credit(received, released) {
  assert(released <= received && received <= w_sent); /* else the link would be reset for it */
  probed = probed && received <= w_received && released <= w_released;
  w_received = larger(received, w_received);
  w_released = larger(released, w_released);
  drop_done()
}

/* ================================ LaneReader ================================ */

inline on_frame(sequence) {
  if
  :: invalid
#ifdef NO_DUPLICATE_CHECK
  :: !invalid && sequence < r_next -> inbox!sequence, epoch[READER]
#else
  :: !invalid && sequence < r_next
#endif
  :: !invalid && sequence >= r_next ->
     assert(sequence <= r_released + SLOTS); /* else no honest writer sent it */
     early = early | bit(sequence);
     do
     :: early & bit(r_next) && damaged & bit(r_next) -> invalid = true; break
     :: early & bit(r_next) && !(damaged & bit(r_next)) ->
        early = early & ~bit(r_next);
        inbox!r_next, epoch[READER];
        r_next++;
        owed = true
     :: else -> break
     od
  fi
}

/* The Inbound stays while slots in it are lent or in the inbox; nobody will read the others. */
inline close_reader() {
  if
  :: in_open ->
     in_open = false;
     early = 0;
     damaged = 0;
     invalid = false;
     owed = false;
     k = 0;
     do
#ifdef UNMAPS_LENT
     :: k < SLOTS -> frame_at(epoch[READER], k) = 0; k++
#else
     :: k < SLOTS && frame_at(epoch[READER], k) >= r_next -> frame_at(epoch[READER], k) = 0; k++
     :: k < SLOTS && frame_at(epoch[READER], k) < r_next -> k++
#endif
     :: else -> break
     od;
#ifndef LATE_COPIES
     k = 0;
     do
     :: k < EPOCHS * FRAMES ->
        assert(!((flying >> k) & 1) || frame_at(k / FRAMES + 1, k % FRAMES + 1) == 0);
        k++
     :: else -> break
     od;
     flying = 0
#endif
  :: else
  fi
}

inline release(sequence) { /* called in any order; slots become free in order */
  done = done | bit(sequence);
  do
#ifdef FREES_OUT_OF_ORDER
  :: done & bit(sequence) ->
     done = done & ~bit(sequence);
     r_released = larger(sequence, r_released);
     frame_at(lent_at[sequence], sequence) = 0;
     owed = in_open
#else
  :: done & bit(r_released + 1) ->
     r_released++;
     done = done & ~bit(r_released);
     frame_at(lent_at[r_released], r_released) = 0;
     lent_at[r_released] = 0;
     owed = in_open
#endif
  :: else -> break
  od
}
