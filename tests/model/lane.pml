/* One lane on one link, both ends of it, and a network that misbehaves. README.md maps the parts to
 * the code and says what is checked.
 *
 * What the progress owner does in one go is one step here. No step can be repeated for ever: each
 * one moves a frame or uses up a reset or a fault. So "no cycle, and whatever cannot move is
 * settled" means that everything is delivered once the faults stop.
 *
 * Sizes, and the deliberate errors that check the checks, are set with -D.
 */
#ifndef FRAMES
#define FRAMES 5
#endif
#ifndef RESETS /* of either end, at any moment */
#define RESETS 2
#endif
#ifndef FAULTS /* of the network, and probes without need */
#define FAULTS 1
#endif
#define SLOTS 2
#define BUFFERS 2                    /* staging of the writer's port: the least that can work */
#define EPOCHS (1 + RESETS + FAULTS) /* a fault costs one reset at most: see open_link */

#define WRITER 0
#define READER 1

#define bit(s) (1 << (s))
#define frame_at(e, s) slot[(e) * SLOTS + (s) % SLOTS]
#define copy_of(e, s) bit(((e) - 1) * FRAMES + (s) - 1)
#define larger(a, b) ((a) > (b) -> (a) : (b))

mtype = { Idle, Open, Backoff, Suspended };   /* Link::State */
mtype = { Hello, Want, Offer, Probe, State }; /* MessageType */

/* ---- the link, per end ---- */
mtype state[2] = Idle;
byte epoch[2];
bool ported[2]; /* that end's port was added to the link */
bool wanted;    /* WANT has reached the reading end */
chan control[2] = [2 * EPOCHS + 2] of { mtype, byte, byte, byte }; /* to that end; epoch, a, b */

/* ---- the writing end ---- */
bool out_open;        /* there is an Outbound, in epoch[WRITER] */
byte w_next = 1;      /* sequence of the next append */
byte w_sent;          /* last sequence ever handed to a transport */
byte w_oldest = 1;    /* first sequence retained */
byte w_received;      /* newest credit */
byte w_released;
byte on_wire;         /* by sequence: the transport may still read the buffer */
byte buffer[BUFFERS]; /* which frame lies in it */
bool probed;          /* since the last movement */

/* ---- the reading end ---- */
bool in_open;     /* there is an Inbound, in epoch[READER] */
byte r_next = 1;  /* next to publish */
byte r_released;  /* cumulative */
byte early;       /* by sequence: arrived before a predecessor */
byte done;        /* by sequence: released, but a predecessor is not */
byte damaged;     /* by sequence: does not validate */
bool invalid;
bool owed;        /* there is credit to tell */
byte slot[(EPOCHS + 1) * SLOTS]; /* which frame lies there; 0: free, or the arena is gone */

/* ---- the reading application ---- */
chan inbox = [SLOTS] of { byte, byte }; /* sequence, epoch of the arena */
byte taken;
byte lent; /* by sequence: taken and not released */
byte lent_at[FRAMES + 1];

/* ---- the network ---- */
int flying;    /* copies of frames on their way: copy_of(epoch, sequence) */
chan credits = [2] of { byte, byte, byte }; /* epoch, received, released */
byte severed;  /* the epoch in which nothing arrives any more */
byte resets = RESETS;
byte faults = FAULTS;

/* Scratch of one step. What a step with a choice in it uses is part of the state, hence 0 between
 * steps; the rest need not be, since nothing is undone between its assignment and its use. */
byte i, e, s;
hidden byte at, a, b, k;
hidden mtype type;

inline pick(mask) { /* i = any bit of a mask that is not 0 */
  i = 0;
  do
  :: ((mask) >> i) > 1 -> i++
  :: ((mask) >> i) & 1 -> break
  od
}

#include "lane_ends.pml"
#include "link.pml"

/* ========================= applications and watchdogs ========================= */

/* Watchdogs fire here as late as can be, when nothing else moves. What an early one does is among
 * the resets and the needless probes. */
proctype writing() {
end:
  do
  :: d_step { w_next <= FRAMES && w_next - 1 - w_released < SLOTS && w_next - w_oldest < BUFFERS ->
              append() }
  :: d_step { faults > 0 && out_open && w_released < w_sent -> faults--; probe() }
#ifdef NO_PROBE
  :: atomic { timeout && out_open && w_received < w_sent ->
              close_writer(); back_off(WRITER) }
#else
  :: atomic { timeout && out_open && w_released < w_sent && !probed -> probed = true; probe() }
  :: atomic { timeout && out_open && w_received < w_sent && probed ->
              close_writer(); back_off(WRITER) }
#endif
  od
}

proctype reading() {
end:
  do
  :: d_step { nempty(inbox) -> inbox?k, at;
              assert(k == taken + 1 && frame_at(at, k) == k);
              taken = k;
              lent = lent | bit(k);
              lent_at[k] = at }
  :: atomic { lent != 0 -> pick(lent);
              assert(frame_at(lent_at[i], i) == i);
              lent = lent & ~bit(i);
              release(i);
              i = 0 }
  :: d_step { in_open && owed && nfull(credits) && !(credits??[eval(epoch[READER]), _, _]) ->
              owed = false;
#ifdef CREDITS_WHAT_IS_TAKEN
              credits!epoch[READER], r_next - 1, taken }
#else
              credits!epoch[READER], r_next - 1, r_released }
#endif
  :: d_step { in_open && invalid -> close_reader(); back_off(READER) }
  :: atomic { timeout && in_open && early != 0 -> close_reader(); back_off(READER) }
  od
}

/* ================================== network ================================== */

inline write_slot() { /* into one that is in use: a torn frame */
  assert(frame_at(e, s) == 0);
  frame_at(e, s) = s
}

inline arrive() {
  if
  :: e == severed
  :: e != severed && in_open && e == epoch[READER] -> write_slot(); on_frame(s)
#ifdef REUSES_ARENAS
  :: e != severed && in_open && e < epoch[READER] -> e = epoch[READER]; write_slot(); on_frame(s)
  :: e != severed && !in_open
#else
  :: e != severed && !(in_open && e == epoch[READER]) -> assert(frame_at(e, s) == 0)
#endif
  fi
}

proctype network() {
end:
  do
  :: atomic { flying != 0 -> pick(flying); /* frames arrive in any order */
              flying = flying & ~bit(i);
              e = i / FRAMES + 1;
              s = i % FRAMES + 1;
              if
              :: arrive()
              :: faults > 0 -> faults-- /* dropped */
              :: faults > 0 && in_open && e == epoch[READER] && e != severed ->
                 faults--;
                 damaged = damaged | bit(s);
                 write_slot();
                 on_frame(s)
              fi;
              i = 0; e = 0; s = 0 }
  :: atomic { on_wire != 0 -> pick(on_wire); /* on_sent: before the arrival or after it */
              on_wire = on_wire & ~bit(i);
              probed = false;
              drop_done();
              i = 0 }
  :: d_step { nempty(credits) -> credits?at, a, b;
              if
              :: out_open && at == epoch[WRITER] && at != severed -> on_credit(a, b)
              :: else
              fi }
  :: d_step { faults > 0 && nempty(credits) -> faults--; credits?_, _, _ }
  :: d_step { faults > 0 && in_open && severed != epoch[READER] -> faults--;
              severed = epoch[READER] }
  :: atomic { faults > 0 && in_open && (frame_at(epoch[READER], 0) || frame_at(epoch[READER], 1)) ->
              faults--;
              if /* a duplicate */
              :: frame_at(epoch[READER], 0) -> s = frame_at(epoch[READER], 0)
              :: frame_at(epoch[READER], 1) -> s = frame_at(epoch[READER], 1)
              fi;
              on_frame(s);
              s = 0 }
  od
}

/* What must hold where nothing can move any more; waiting in vain for it is an invalid end state. */
#define settled (w_released == FRAMES && taken == FRAMES && out_open && in_open && \
                 state[WRITER] == Open && state[READER] == Open && epoch[WRITER] == epoch[READER])

init {
  atomic {
    run link(WRITER);
    run link(READER);
    run writing();
    run reading();
    run network()
  }
  atomic { settled -> resets = 0; faults = 0 }
}
