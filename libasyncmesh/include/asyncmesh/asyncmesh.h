/* AsyncMesh: communication for training large models without waiting. The whole public contract,
 * C99.
 *
 * Data-parallel replicas exchange small rotating parts of their parameters (averager), pipeline
 * stages exchange activations and gradients under a staleness bound (port: channel), over UCX. The
 * method is that of arXiv 2601.22442.
 *
 * In six steps:
 *   1. asyncmesh_config_from_env      defaults, launcher variables (torchrun, Slurm, Open MPI)
 *   2. asyncmesh_context_create       progress thread (or manual: call asyncmesh_context_do_work)
 *   3. asyncmesh_mesh_join            transports; meet the other ranks; authenticated
 *   4. asyncmesh_region_create        describe your parameters (they stay yours)
 *   5. asyncmesh_averager_create      then, after each optimiser step, asyncmesh_averager_call
 *   6. asyncmesh_averager_finish      one model, bitwise equal on all replicas; then
 *                                     asyncmesh_mesh_leave
 *
 * Status. Every fallible function returns asyncmesh_status_t: 0 is success, negatives are listed
 * below. On failure nothing changed, outputs are untouched, and asyncmesh_last_error() has a text
 * (not for ASYNCMESH_AGAIN, which is back-pressure, not an error). Structs start with
 * `struct_size`: set it to sizeof the struct (the _INIT macros do). A shorter struct (an older
 * caller) takes defaults for what it lacks; a longer one is accepted if its unknown tail is zero;
 * anything else is ASYNCMESH_INVALID_ARGUMENT. A NULL config means defaults where the function says
 * so. Fields are only ever appended.
 *
 * Ownership. Handles are opaque; destroy(NULL) is a no-op; a
 * child keeps its parents alive, so destruction order is free. Memory that you describe (regions,
 * gradients) stays yours and must outlive the objects that use it.
 *
 * Threads, one of three words on each function: "any thread"; "one caller at a time" (per object);
 * "no concurrent use" (create, destroy: nothing else on that object at the same time). The library
 * never calls back, never prints, never aborts, installs no signal handler, and reads the
 * environment only in asyncmesh_config_from_env (UCX reads its own UCX_* variables in
 * asyncmesh_mesh_join and asyncmesh_describe).
 *
 * Time: nanoseconds. A timeout is relative; 0 = do not wait, negative = no deadline (still ended by
 * the loss of a peer).
 *
 * Fork: handles do not survive fork; in the child every call returns
 * ASYNCMESH_INVALID_STATE and destroy is a no-op.
 *
 * ABI: asyncmesh_abi_revision() grows with every
 * addition; a binding compares it at load.
 */
#ifndef ASYNCMESH_ASYNCMESH_H
#define ASYNCMESH_ASYNCMESH_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ASYNCMESH_API __attribute__((visibility("default")))
#else
#define ASYNCMESH_API
#endif
#if defined(__cplusplus)
#define ASYNCMESH_NOEXCEPT noexcept
extern "C" {
#else
#define ASYNCMESH_NOEXCEPT
#endif

#define ASYNCMESH_ABI_REVISION 2u

/* ---- Status ---- */

typedef int32_t asyncmesh_status_t;
enum {
  ASYNCMESH_OK = 0,
  /* call again */
  ASYNCMESH_AGAIN = -1,   /* full, or nothing there; not an error, no text */
  ASYNCMESH_TIMEOUT = -2, /* the deadline passed; state is consistent, the call may be repeated */
  /* the call is wrong; nothing changed */
  ASYNCMESH_INVALID_ARGUMENT = -10,
  ASYNCMESH_INVALID_STATE = -11, /* not legal now (order of calls, after fork, after finish) */
  ASYNCMESH_UNSUPPORTED = -12,   /* not in this build or on this machine */
  ASYNCMESH_TOO_LARGE = -13,     /* above the slot or the limit */
  ASYNCMESH_NO_MEMORY = -14,
  /* the operation is lost */
  ASYNCMESH_CANCELED = -20, /* the object was closed while waiting */
  ASYNCMESH_MISMATCH = -21, /* ranks disagree: version, geometry, parameter table */
  ASYNCMESH_REFUSED = -22,  /* authentication failed */
  /* the peer is lost: end the job, or go on without it */
  ASYNCMESH_PEER_LOST = -30, /* the text names the rank */
  ASYNCMESH_LINK_ERROR = -31,
  /* the context is unusable: destroy it */
  ASYNCMESH_SYSTEM = -40,
  ASYNCMESH_INTERNAL = -41
};

ASYNCMESH_API uint32_t asyncmesh_abi_revision(void) ASYNCMESH_NOEXCEPT; /* any thread */
ASYNCMESH_API const char* asyncmesh_version_string(void)
    ASYNCMESH_NOEXCEPT; /* any thread; "0.1.0" */
ASYNCMESH_API const char* asyncmesh_status_name(asyncmesh_status_t status)
    ASYNCMESH_NOEXCEPT; /* any thread; "PEER_LOST" */
/* Text of this thread's last failing call; "" if none; valid until this thread's next failing call.
 * Never NULL. */
ASYNCMESH_API const char* asyncmesh_last_error(void) ASYNCMESH_NOEXCEPT;

/* ---- Handles ---- */

typedef struct asyncmesh_context asyncmesh_context_t;
typedef struct asyncmesh_mesh asyncmesh_mesh_t;
typedef struct asyncmesh_region asyncmesh_region_t;
typedef struct asyncmesh_averager asyncmesh_averager_t;
typedef struct asyncmesh_optimiser asyncmesh_optimiser_t;
typedef struct asyncmesh_stage asyncmesh_stage_t;
typedef struct asyncmesh_port asyncmesh_port_t;

/* ---- Context ---- */

enum { ASYNCMESH_PROGRESS_THREAD = 0, ASYNCMESH_PROGRESS_MANUAL = 1 };
enum {
  ASYNCMESH_ENGINE_AUTO = 0, /* per pair of ranks: rma within a host where shared memory works,
                                else tag; with an emulated link always tag */
  ASYNCMESH_ENGINE_TAG = 1,  /* UCX tag matching: any medium */
  ASYNCMESH_ENGINE_RMA = 2, /* UCX remote memory: native RMA only (shared memory, RoCE, InfiniBand);
                               refused over TCP */
  ASYNCMESH_ENGINE_LOOPBACK = 3 /* all ranks are contexts of this process; no UCX */
};
enum {
  ASYNCMESH_LOG_OFF = 0,
  ASYNCMESH_LOG_ERROR = 1,
  ASYNCMESH_LOG_WARNING = 2,
  ASYNCMESH_LOG_INFO = 3,
  ASYNCMESH_LOG_DEBUG = 4
};

typedef struct asyncmesh_config {
  uint32_t struct_size;
  uint32_t progress; /* ASYNCMESH_PROGRESS_* */
  uint32_t engine;   /* ASYNCMESH_ENGINE_* */
  uint32_t
      checksum;   /* 1: CRC32C over payloads too, not only over frame headers; forced by `faults` */
  int32_t log_fd; /* lines are written there; -1: no log (default) */
  uint32_t log_level;      /* ASYNCMESH_LOG_*, default WARNING */
  int32_t progress_cpu;    /* pin the progress thread; -1: no (default) */
  uint32_t kernel_threads; /* that work on a call of an averager or optimiser, the caller's
                              included; 0 (default) is 1, at most 256. No result depends on it; more
                              than there are free cores make calls slower. Made with the context,
                              and with its creator's CPU affinity; shared by all of its objects: two
                              calls at a time do not wait for each other, one of them works on its
                              caller's thread alone */
  char tls[64];            /* "" or "auto"; "tcp"; "shm"; else a UCX_TLS list for the tag engine */
  char net_devices[64];    /* "": the interface that routes to the rendezvous */
  char link[64]; /* "" or "none"; "RATE,DELAY" such as "200Mbit,5ms": emulate a slow link in the
                    transport, one egress bucket per rank */
  char
      faults[128]; /* "": none; "seed=1,drop=0.01,duplicate=0.01,corrupt=0.01,delay=0.01,cut=0.001":
                      for tests */
} asyncmesh_config_t;
#define ASYNCMESH_CONFIG_INIT \
  { sizeof(asyncmesh_config_t), 0, 0, 0, -1, ASYNCMESH_LOG_WARNING, -1, 0, "", "", "", "" }

typedef struct asyncmesh_mesh_config {
  uint32_t struct_size;
  uint32_t rank;     /* default replica * stages + stage; must agree with it */
  uint32_t replicas; /* R >= 1 */
  uint32_t stages;   /* P >= 1; world = R * P */
  uint32_t replica;
  uint32_t stage;
  uint32_t external_rendezvous; /* 1: a standalone process serves the url, rank 0 does not */
  uint32_t reserved;            /* 0 */
  int64_t peer_timeout_ns;      /* the one knob from which every timer derives; default 10 s */
  char url[256];                /* tcp://host:port; "" for a world of one */
  char secret[256];             /* mandatory off loopback */
  char run_id[64];
  char bind_address[64];     /* "": chosen */
  char announce_address[64]; /* "": chosen */
} asyncmesh_mesh_config_t;
#define ASYNCMESH_MESH_CONFIG_INIT \
  { sizeof(asyncmesh_mesh_config_t), 0, 1, 1, 0, 0, 0, 0, 10000000000ll, "", "", "", "", "" }

/* Fills both (either may be NULL) from defaults and the environment; struct_size must be set.
 * config: ASYNCMESH_ENGINE (auto, tag, rma, loopback), _PROGRESS (thread, manual), _CHECKSUM (0,
 * 1), _TLS, _NET_DEVICES, _LINK, _FAULTS, _LOG (off, error, warning, info, debug; to standard
 * error), _KERNEL_THREADS (1 to 256). mesh_config: ASYNCMESH_RENDEZVOUS (url), _RANK and
 * _WORLD_SIZE or the launcher's (torchrun: MASTER_PORT + 1, since torchrun keeps the port itself;
 * Slurm; Open MPI), _STAGES, _SECRET or _SECRET_FILE, _RUN_ID, _EXTERNAL_RENDEZVOUS, _BIND_ADDRESS,
 * _ANNOUNCE_ADDRESS, _PEER_TIMEOUT_MS. Any thread that does not race with setenv. INVALID_ARGUMENT:
 * a variable that does not parse, named in the text. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_config_from_env(
    asyncmesh_config_t* config, asyncmesh_mesh_config_t* mesh_config) ASYNCMESH_NOEXCEPT;

/* `config` may be NULL. No concurrent use. UNSUPPORTED: an engine that its tls rules out (rma over
 * tcp). SYSTEM: no thread or file descriptor. Transports are opened by asyncmesh_mesh_join. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_context_create(
    const asyncmesh_config_t* config, asyncmesh_context_t** context_out) ASYNCMESH_NOEXCEPT;
/* Drops the caller's reference; children that still exist keep the context alive. No concurrent
 * use. */
ASYNCMESH_API void asyncmesh_context_destroy(asyncmesh_context_t* context) ASYNCMESH_NOEXCEPT;
/* Manual mode: moves everything that can move; `work_out` (may be NULL) gets the number of events
 * handled, 0 = idle. Call it at least every peer_timeout / 8. INVALID_STATE in thread mode. One
 * caller at a time. Blocking calls run it themselves. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_context_do_work(asyncmesh_context_t* context,
                                                           uint32_t* work_out) ASYNCMESH_NOEXCEPT;

enum {
  ASYNCMESH_EVENT_PEER_SUSPECT = 1,
  ASYNCMESH_EVENT_PEER_ALIVE = 2, /* a suspect spoke again */
  ASYNCMESH_EVENT_PEER_LOST = 3,
  ASYNCMESH_EVENT_PEER_LEFT = 4,
  ASYNCMESH_EVENT_MESH_LOST = 5, /* this rank was removed, or the rendezvous is gone */
  ASYNCMESH_EVENT_PORT_READY =
      6 /* a receiving port has a frame; a sending port that answered AGAIN would accept one now */
};
typedef struct asyncmesh_event {
  uint32_t struct_size; /* set in the first element of the array: the stride */
  uint32_t kind;        /* ASYNCMESH_EVENT_* */
  uint32_t rank;        /* peer events */
  asyncmesh_status_t status;
  uint64_t port_key; /* PORT_READY: port_config.key */
  char text[160];    /* reason, for people */
} asyncmesh_event_t;
/* The one place where a pipeline waits: blocks until something is ready or `timeout_ns`. Peer
 * events come once each; PORT_READY is level-triggered. OK with *count_out >= 1, or TIMEOUT with
 * nothing. Capacity >= 1. One caller at a time, on the thread that uses the ports: it looks at
 * every open port as its caller would. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_context_poll(asyncmesh_context_t* context,
                                                        asyncmesh_event_t* events,
                                                        uint32_t capacity, uint32_t* count_out,
                                                        int64_t timeout_ns) ASYNCMESH_NOEXCEPT;

typedef struct asyncmesh_counter {
  uint32_t struct_size; /* set in the first element of the array: the stride */
  uint32_t reserved;
  uint64_t value;
  char name[80]; /* e.g. "link.1.resets", "port.7.bytes_sent", "port.7.staleness.2",
                    "averager.rounds_applied" */
} asyncmesh_counter_t;
/* `*count_out` gets the number there is, also when it exceeds `capacity` (counters may be NULL with
 * capacity 0). Any thread. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_counters_read(asyncmesh_context_t* context,
                                                         asyncmesh_counter_t* counters,
                                                         uint32_t capacity,
                                                         uint32_t* count_out) ASYNCMESH_NOEXCEPT;
/* A JSON text for people and bug reports: versions, path of libucp, transports and devices, engine
 * and interface chosen and why, memlock, /dev/shm, CUDA, CPUs. `*need_out` gets the size with the
 * terminating zero; TOO_LARGE if `capacity` is below (buffer may be NULL with capacity 0). Any
 * thread. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_describe(asyncmesh_context_t* context, char* buffer,
                                                    uint64_t capacity,
                                                    uint64_t* need_out) ASYNCMESH_NOEXCEPT;

/* ---- Mesh ---- */

/* One mesh per context; opens its transports, then blocks until all ranks are there. TIMEOUT names
 * the missing ranks; REFUSED: wrong secret; MISMATCH: what differs; UNSUPPORTED: the engine has no
 * medium here; SYSTEM: address, port, or UCX, with its text. No concurrent use. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_mesh_join(asyncmesh_context_t* context, const asyncmesh_mesh_config_t* config,
                    int64_t timeout_ns, asyncmesh_mesh_t** mesh_out) ASYNCMESH_NOEXCEPT;
typedef struct asyncmesh_mesh_info {
  uint32_t struct_size;
  uint32_t rank, world, replica, replicas, stage, stages;
  uint32_t alive; /* ranks not lost and not left, this one included */
  uint64_t membership_epoch;
  char transports[128]; /* distinct link descriptions, e.g. "rma over posix" */
  char interface_name[64];
  char link[64]; /* the emulated link, "none" if none */
} asyncmesh_mesh_info_t;
ASYNCMESH_API asyncmesh_status_t asyncmesh_mesh_query(
    asyncmesh_mesh_t* mesh, asyncmesh_mesh_info_t* info_out) ASYNCMESH_NOEXCEPT; /* any thread */

enum {
  ASYNCMESH_PEER_ALIVE = 1,
  ASYNCMESH_PEER_SUSPECT = 2,
  ASYNCMESH_PEER_STATE_LOST = 3,
  ASYNCMESH_PEER_LEFT = 4
};
typedef struct asyncmesh_peer_info {
  uint32_t struct_size;
  uint32_t rank, replica, stage;
  uint32_t state;      /* ASYNCMESH_PEER_* */
  uint32_t link_epoch; /* grows with every reset */
  char transport[64];
  char host[64];
  char reason[160];
} asyncmesh_peer_info_t;
ASYNCMESH_API asyncmesh_status_t asyncmesh_mesh_peer(asyncmesh_mesh_t* mesh, uint32_t rank,
                                                     asyncmesh_peer_info_t* info_out)
    ASYNCMESH_NOEXCEPT; /* any thread */
/* Waits until what was sent has been received (or the timeout), then says goodbye: peers report
 * PEER_LEFT, not a loss. Finish averagers first: who leaves takes the rounds that others still wait
 * for with it. TIMEOUT: left, but something was not received. No concurrent use. Afterwards ports
 * and averagers of this mesh answer CANCELED. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_mesh_leave(asyncmesh_mesh_t* mesh,
                                                      int64_t timeout_ns) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API void asyncmesh_mesh_destroy(asyncmesh_mesh_t* mesh)
    ASYNCMESH_NOEXCEPT; /* without leave: peers see a loss */

/* ---- Region: a parameter table ---- */

typedef uint32_t asyncmesh_dtype_t;
enum {
  ASYNCMESH_FLOAT32 = 0,
  ASYNCMESH_BFLOAT16 = 1,
  ASYNCMESH_FLOAT16 = 2,
  ASYNCMESH_INT64 = 3,
  ASYNCMESH_UINT8 = 4
};
typedef struct asyncmesh_tensor {
  uint32_t struct_size; /* set in the first element of the array: the stride */
  asyncmesh_dtype_t
      dtype;         /* tables are all FLOAT32 (master weights), all BFLOAT16 or all FLOAT16 */
  void* data;        /* dense, storage order; aligned as its type; disjoint from the others */
  uint64_t count;    /* elements, >= 1 */
  uint64_t id;       /* of the parameter, the same on all ranks; unique in the region */
  int32_t device;    /* -1: host memory; >= 0: CUDA device: UNSUPPORTED without GPU support */
  uint32_t reserved; /* 0 */
} asyncmesh_tensor_t;
/* A region as a parameter table of averager and optimiser has one dtype: FLOAT32, or BFLOAT16 or
 * FLOAT16 to train without masters (arithmetic, moments and the EMA are fp32 all the same; what is
 * written is rounded to nearest, so steps below the dtype's spacing are lost). A *mirror* has the
 * table's ids and counts and a dtype of its own of the three: where weights are written it receives
 * them too, rounded to nearest.
 *
 * The caller keeps the memory alive and in place. No concurrent use. INVALID_ARGUMENT: null data,
 * overlap, duplicate id, count 0. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_region_create(asyncmesh_context_t* context, const asyncmesh_tensor_t* tensors,
                        uint32_t tensor_count, asyncmesh_region_t** region_out) ASYNCMESH_NOEXCEPT;
/* Tensors moved: same ids, counts and dtypes, new pointers. MISMATCH otherwise. No concurrent use
 * (not during a call that uses it). */
ASYNCMESH_API asyncmesh_status_t asyncmesh_region_rebind(asyncmesh_region_t* region,
                                                         const asyncmesh_tensor_t* tensors,
                                                         uint32_t tensor_count) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API void asyncmesh_region_destroy(asyncmesh_region_t* region) ASYNCMESH_NOEXCEPT;

/* ---- Averager: sparse asynchronous averaging with delay and EMA correction ---- */

enum {
  ASYNCMESH_RULE_AVERAGE = 0,
  ASYNCMESH_RULE_DELTA = 1,
  ASYNCMESH_RULE_EMA = 2
}; /* (3.1) w <- a; (3.2) w <- a + lambda drift; (3.3) w <- a + lambda e */
enum {
  ASYNCMESH_INIT_FIRST_VISIT = 0,
  ASYNCMESH_INIT_ZERO = 1,
  ASYNCMESH_INIT_PARITY = 2
}; /* of the EMA: e = drift at an element's first visit; e = 0; the released research code's */
enum { ASYNCMESH_MODE_OPPORTUNISTIC = 0, ASYNCMESH_MODE_DETERMINISTIC = 1 };
enum { ASYNCMESH_REDRAW_EVERY_CYCLE = 0, ASYNCMESH_REDRAW_NEVER = 1 };
enum {
  ASYNCMESH_SELECTION_ROTATION = 0,
  ASYNCMESH_SELECTION_RANDOM = 1
}; /* part k mod N in round k; each block with probability p in each round, N = 1 */
/* What the values of rounds travel as. INT8, INT4: with an fp32 scale for every 64 values, 1.06 and
 * 0.56 bytes each. ASYNCMESH_FLOAT32, _BFLOAT16 and _FLOAT16 name the first three as well. */
typedef uint32_t asyncmesh_wire_t;
enum {
  ASYNCMESH_WIRE_FLOAT32 = 0,
  ASYNCMESH_WIRE_BFLOAT16 = 1,
  ASYNCMESH_WIRE_FLOAT16 = 2,
  ASYNCMESH_WIRE_INT8 = 16,
  ASYNCMESH_WIRE_INT4 = 17
};
/* Of encodings other than FLOAT32. STOCHASTIC: up or down with the probabilities that make the
 * expected value exact; drawn from (seed, group, round, rank), so that every member draws its own
 * and a repeated run the same. */
enum { ASYNCMESH_ROUNDING_NEAREST = 0, ASYNCMESH_ROUNDING_STOCHASTIC = 1 };
typedef struct asyncmesh_averager_config {
  uint32_t struct_size;
  uint32_t rule; /* ASYNCMESH_RULE_*; default EMA */
  uint32_t init; /* ASYNCMESH_INIT_* */
  uint32_t
      mode; /* OPPORTUNISTIC: a round is applied when complete, no call ever waits. DETERMINISTIC:
               exactly `window` calls after it started, waiting if late; bitwise reproducible */
  uint32_t window; /* W: rounds open at a time; the delay tau in deterministic mode (0: within the
                      call). Default 10. Takes room for 2 (W + 1) rounds per other member */
  uint32_t granularity;  /* elements per block; default 64 */
  uint32_t redraw;       /* ASYNCMESH_REDRAW_*; NEVER with seed 0: part of block b = b mod N.
                             ROTATION only */
  asyncmesh_wire_t wire; /* ASYNCMESH_WIRE_*: of rounds; default FLOAT32. What it cannot hold of a
                            member's values stays with that member instead of being lost */
  double fraction;       /* p in (0, 1]; default 0.05; N = min(ceil(1 / p), blocks) parts */
  double scale;          /* lambda of (3.2), (3.3); default 1 */
  double momentum_first; /* m at the start, (3.4); default 0.5 */
  double momentum_last;  /* default 0.99 */
  double warm_up;        /* share of the progress before the cosine; default 1/30 */
  uint64_t seed;         /* of the subsets and of stochastic rounding; equal on all members */
  uint64_t group; /* key of the group; default (0): the replicas of this rank's stage. Members: the
                     ranks of the same stage */
  int64_t create_timeout_ns; /* waiting for the other members' create; default 60 s */
  uint32_t selection;        /* ASYNCMESH_SELECTION_*: which blocks a round takes */
  uint32_t rounding;         /* ASYNCMESH_ROUNDING_*; default NEAREST */
} asyncmesh_averager_config_t;
#define ASYNCMESH_AVERAGER_CONFIG_INIT                                                           \
  {                                                                                              \
    sizeof(asyncmesh_averager_config_t), ASYNCMESH_RULE_EMA, 0, 0, 10, 64, 0, 0, 0.05, 1.0, 0.5, \
        0.99, 1.0 / 30, 0, 0, 60000000000ll, 0, 0                                                \
  }

/* Collective over the replicas of the stage. `config` may be NULL. MISMATCH: another member's table
 * or settings differ (named). INVALID_ARGUMENT: a setting out of range or unstable (the text gives
 * q, the limit and the remedy). No concurrent use. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_create(
    asyncmesh_mesh_t* mesh, asyncmesh_region_t* region, const asyncmesh_averager_config_t* config,
    asyncmesh_averager_t** averager_out) ASYNCMESH_NOEXCEPT;
typedef struct asyncmesh_averager_call_args {
  uint32_t struct_size;
  float weight;               /* of this rank in the round it starts; default 1; 0: receives only */
  double progress;            /* of the training, 0..1, for the schedule (3.4) */
  asyncmesh_region_t* mirror; /* refreshed where weights are written (newest stash version, bf16
                                 working copy); may be NULL */
  int64_t timeout_ns;         /* deterministic mode; default -1 */
} asyncmesh_averager_call_t;
#define ASYNCMESH_AVERAGER_CALL_INIT \
  { sizeof(asyncmesh_averager_call_t), 1.0f, 0.0, NULL, -1 }
typedef struct asyncmesh_averager_result {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t started, applied, skipped;     /* rounds, in this call */
  uint64_t open;                          /* rounds open after it */
  uint64_t age_rounds, age_calls, age_ns; /* of the last round applied */
  uint64_t wait_ns, time_ns;              /* blocked in this call; all of this call */
  uint64_t bytes_posted;
} asyncmesh_averager_result_t;
/* Once per optimiser step, after it. Applies what is due, snapshots, packs, posts. Allocates
 * nothing after warm-up; waits only in deterministic mode. `call` and `result_out` may be NULL. One
 * caller at a time. TIMEOUT: repeat the call. PEER_LOST. INVALID_STATE after finish. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_averager_call(asyncmesh_averager_t* averager, const asyncmesh_averager_call_t* call,
                        asyncmesh_averager_result_t* result_out) ASYNCMESH_NOEXCEPT;
typedef struct asyncmesh_mean {
  uint32_t struct_size;
  float weight;       /* of this rank; broadcast from one rank: 1 there, 0 elsewhere. Default 1 */
  int64_t timeout_ns; /* default -1 */
} asyncmesh_mean_t;
#define ASYNCMESH_MEAN_INIT \
  { sizeof(asyncmesh_mean_t), 1.0f, -1 }
/* Blocking weighted mean of `in` over the members, into `out` (may be the same), bitwise equal
 * everywhere. Regions of the averager's layout or any other that all members share; `out` may have
 * another dtype than `in`, the mean itself is taken in fp32. Collective. One caller at a time.
 * INVALID_ARGUMENT when all weights are 0. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_averager_mean(asyncmesh_averager_t* averager, asyncmesh_region_t* in,
                        asyncmesh_region_t* out, const asyncmesh_mean_t* mean) ASYNCMESH_NOEXCEPT;
/* The end of averaging: discards open rounds, then a full mean of the region in place, bitwise
 * equal on all members. Collective, but members may come at different times: the others go on
 * without this one. Calls afterwards: INVALID_STATE. One caller at a time. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_finish(asyncmesh_averager_t* averager,
                                                           int64_t timeout_ns) ASYNCMESH_NOEXCEPT;
typedef struct asyncmesh_averager_info {
  uint32_t struct_size;
  uint32_t parts; /* N; 1 with random selection */
  uint64_t blocks, elements, members;
  uint64_t calls, rounds_started, rounds_applied, rounds_skipped, rounds_discarded,
      frames_discarded, not_finite, too_few;
  uint64_t bytes_posted, time_ns, wait_ns;
  uint64_t q;    /* writes to an element between sampling and applying, largest seen; with random
                    selection their mean at the largest delay seen, rounded up */
  double margin; /* 1: far from unstable; 0: at the limit */
} asyncmesh_averager_info_t;
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_query(asyncmesh_averager_t* averager,
                                                          asyncmesh_averager_info_t* info_out)
    ASYNCMESH_NOEXCEPT; /* one caller at a time */
/* The part number (0..N-1) of every element of the region, in table order, in cycle `cycle` (round
 * = cycle * N + part). Random selection: 0 for what round `cycle` takes, UINT32_MAX for the rest.
 * capacity >= elements. Any thread. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_partition(asyncmesh_averager_t* averager,
                                                              uint64_t cycle, uint32_t* parts_out,
                                                              uint64_t capacity) ASYNCMESH_NOEXCEPT;
/* State as bytes (EMA, visited blocks, round). Save: *need_out gets the size; TOO_LARGE if capacity
 * is below. Load: MISMATCH for another table or setting. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_save(asyncmesh_averager_t* averager,
                                                         void* buffer, uint64_t capacity,
                                                         uint64_t* need_out) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API asyncmesh_status_t asyncmesh_averager_load(asyncmesh_averager_t* averager,
                                                         const void* buffer,
                                                         uint64_t size) ASYNCMESH_NOEXCEPT;
/* What it has sent still reaches the others while the mesh lives: destroy it as soon as mean or
 * finish have returned. No concurrent use. */
ASYNCMESH_API void asyncmesh_averager_destroy(asyncmesh_averager_t* averager) ASYNCMESH_NOEXCEPT;

/* ---- Optimiser: NAdamW, look-ahead (4.3) ---- */

typedef struct asyncmesh_optimiser_config {
  uint32_t struct_size;
  uint32_t look_ahead;                        /* 1 (default): NAdamW; 0: AdamW */
  double beta1, beta2, epsilon, weight_decay; /* .99, .999, 1e-8, .01 */
  double psi;             /* momentum decay, 0.004; its warm-up is 1 / psi steps */
  const double* decay;    /* per tensor, NULL: weight_decay for all; copied */
  const double* lr_scale; /* per tensor, NULL: 1 for all; copied */
} asyncmesh_optimiser_config_t;
#define ASYNCMESH_OPTIMISER_CONFIG_INIT \
  { sizeof(asyncmesh_optimiser_config_t), 1, 0.99, 0.999, 1e-8, 0.01, 0.004, NULL, NULL }
/* `gradients`: ids, counts and dtype of the weights. `config` may be NULL. No concurrent use. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_optimiser_create(asyncmesh_region_t* weights, asyncmesh_region_t* gradients,
                           const asyncmesh_optimiser_config_t* config,
                           asyncmesh_optimiser_t** optimiser_out) ASYNCMESH_NOEXCEPT;
typedef struct asyncmesh_optimiser_step_args {
  uint32_t struct_size;
  uint32_t skip; /* 1: overflow; nothing changes, not even the step count */
  double lr;
  double gradient_scale; /* multiplies the gradient before clipping (1 / loss scale, 1 /
                            micro-batches); default 1 */
  double clip_norm; /* > 0: clip by the norm of these gradients (this stage's own); default 0: no
                       clipping */
  asyncmesh_region_t* mirror; /* receives the new weights (next stash version, bf16 working copy),
                                 with `skip` the old ones; may be NULL */
} asyncmesh_optimiser_step_t;
#define ASYNCMESH_OPTIMISER_STEP_INIT \
  { sizeof(asyncmesh_optimiser_step_t), 0, 0.0, 1.0, 0.0, NULL }
/* `norm_out` (may be NULL) gets the scaled gradient norm before clipping. A norm that is not
 * finite: INVALID_ARGUMENT, nothing changed. One caller at a time. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_optimiser_step(asyncmesh_optimiser_t* optimiser,
                                                          const asyncmesh_optimiser_step_t* step,
                                                          double* norm_out) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API asyncmesh_status_t asyncmesh_optimiser_save(asyncmesh_optimiser_t* optimiser,
                                                          void* buffer, uint64_t capacity,
                                                          uint64_t* need_out) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API asyncmesh_status_t asyncmesh_optimiser_load(asyncmesh_optimiser_t* optimiser,
                                                          const void* buffer,
                                                          uint64_t size) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API void asyncmesh_optimiser_destroy(asyncmesh_optimiser_t* optimiser) ASYNCMESH_NOEXCEPT;

/* ---- Stage: the order of forwards, backwards and updates of one pipeline stage ---- */

enum {
  ASYNCMESH_STAGE_OPPORTUNISTIC = 0,
  ASYNCMESH_STAGE_DETERMINISTIC = 1,
  ASYNCMESH_STAGE_SYNCHRONOUS = 2
};
typedef struct asyncmesh_stage_config {
  uint32_t struct_size;
  uint32_t mode;          /* OPPORTUNISTIC: prefers a ready backward. DETERMINISTIC: 1F1B, exactly.
                             SYNCHRONOUS: fill and drain, flush at every update */
  uint32_t stages, stage; /* P, s */
  uint32_t in_flight;     /* micro-batches in flight; 0: P - s; at least P - s */
  uint32_t micro_batches; /* K per update; default 1 */
  uint64_t total;         /* micro-batches to run; 0: unlimited */
} asyncmesh_stage_config_t;
#define ASYNCMESH_STAGE_CONFIG_INIT \
  { sizeof(asyncmesh_stage_config_t), 0, 1, 0, 0, 1, 0 }
enum {
  ASYNCMESH_ACTION_WAIT = 0,
  ASYNCMESH_ACTION_FORWARD = 1,
  ASYNCMESH_ACTION_BACKWARD = 2,
  ASYNCMESH_ACTION_UPDATE = 3,
  ASYNCMESH_ACTION_DONE = 4
};
enum {
  ASYNCMESH_READY_FORWARD = 1,
  ASYNCMESH_READY_BACKWARD = 2
}; /* the input of the next forward / backward is there */
typedef struct asyncmesh_action {
  uint32_t struct_size;
  uint32_t kind;        /* ASYNCMESH_ACTION_* */
  uint64_t micro_batch; /* FORWARD, BACKWARD */
  uint64_t version; /* weights (number of updates applied) to run on; UPDATE: the version that it
                       makes */
  uint32_t slot;    /* of that version in the stash ring */
  uint32_t ring;    /* length of the stash ring */
  uint32_t delay;   /* UPDATE: updates between the oldest gradient's weights and the newest */
  uint32_t reserved;
} asyncmesh_action_t;
ASYNCMESH_API asyncmesh_status_t asyncmesh_stage_create(
    const asyncmesh_stage_config_t* config, asyncmesh_stage_t** stage_out) ASYNCMESH_NOEXCEPT;
/* What to do next, given what is ready. WAIT changes nothing; every other answer is committed: do
 * it, then ask again. One caller at a time. */
ASYNCMESH_API asyncmesh_status_t asyncmesh_stage_next(
    asyncmesh_stage_t* stage, uint32_t ready, asyncmesh_action_t* action_out) ASYNCMESH_NOEXCEPT;
ASYNCMESH_API void asyncmesh_stage_destroy(asyncmesh_stage_t* stage) ASYNCMESH_NOEXCEPT;

/* ---- Port: channel or mailbox ---- */

enum { ASYNCMESH_PORT_CHANNEL_OUT = 0, ASYNCMESH_PORT_CHANNEL_IN = 1, ASYNCMESH_PORT_MAILBOX = 2 };
typedef struct asyncmesh_port_config {
  uint32_t struct_size;
  uint32_t kind;  /* ASYNCMESH_PORT_* */
  uint32_t peer;  /* channel: the other rank. Mailbox: ignored, the members are the replicas of the
                     stage */
  uint32_t tag;   /* with kind and peer names the port: both ends use the same */
  uint32_t slots; /* per lane; 0: 8; a power of two; channel in: above the frames lent at a time */
  uint32_t
      payload_bytes; /* largest payload; both ends the same, else MISMATCH at the first exchange */
  uint32_t max_untaken;  /* channel out, bound K: frames sent and not yet received by the consumer;
                            0: slots */
  uint32_t max_versions; /* channel out, bound V: versions ahead of the newest frame the consumer
                            has taken; 0: none */
  uint64_t key;          /* yours; comes back in events */
} asyncmesh_port_config_t;
#define ASYNCMESH_PORT_CONFIG_INIT \
  { sizeof(asyncmesh_port_config_t), 0, 0, 0, 0, 0, 0, 0, 0 }
/* Returns at once; frames sent before the other end opened wait in the port. No concurrent use. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_port_open(asyncmesh_mesh_t* mesh, const asyncmesh_port_config_t* config,
                    asyncmesh_port_t** port_out) ASYNCMESH_NOEXCEPT;

enum { ASYNCMESH_FRAME_TRAIN = 1, ASYNCMESH_FRAME_EVALUATE = 2, ASYNCMESH_FRAME_CONTROL = 3 };
typedef struct asyncmesh_send {
  uint32_t struct_size;
  uint32_t kind;    /* ASYNCMESH_FRAME_* */
  const void* data; /* copied before the call returns; may be NULL with bytes 0 */
  uint64_t bytes;
  uint64_t micro_batch;    /* mailbox: round */
  uint64_t version;        /* producer's updates; mailbox: step */
  asyncmesh_dtype_t dtype; /* carried, not interpreted */
  uint32_t dimensions;     /* 0..4 */
  uint32_t shape[4];
  int64_t timeout_ns; /* default 0: AGAIN instead of waiting */
} asyncmesh_send_t;
#define ASYNCMESH_SEND_INIT \
  { sizeof(asyncmesh_send_t), ASYNCMESH_FRAME_TRAIN, NULL, 0, 0, 0, 0, 0, {0, 0, 0, 0}, 0 }
/* AGAIN: a bound is reached; nothing was sent. TOO_LARGE: above payload_bytes. PEER_LOST, CANCELED.
 * One caller at a time. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_port_send(asyncmesh_port_t* port, const asyncmesh_send_t* send) ASYNCMESH_NOEXCEPT;

typedef struct asyncmesh_message {
  uint32_t struct_size;
  uint32_t kind;    /* ASYNCMESH_FRAME_* */
  const void* data; /* lent until asyncmesh_port_release; aligned to 16 */
  uint64_t bytes;
  uint64_t micro_batch, version;
  asyncmesh_dtype_t dtype;
  uint32_t dimensions;
  uint32_t shape[4];
  uint32_t source; /* rank */
  uint32_t reserved;
  int64_t staleness; /* versions: consumer_version - version */
  uint64_t token;    /* for asyncmesh_port_release */
} asyncmesh_message_t;
/* `consumer_version`: updates this rank has applied, for the measured staleness. timeout_ns 0:
 * AGAIN if nothing is there. PEER_LOST only when nothing is left to read. One caller at a time. */
ASYNCMESH_API asyncmesh_status_t
asyncmesh_port_recv(asyncmesh_port_t* port, uint64_t consumer_version, int64_t timeout_ns,
                    asyncmesh_message_t* message_out) ASYNCMESH_NOEXCEPT;
/* Any order. INVALID_ARGUMENT for a token that is not lent. One caller at a time, the same as recv.
 */
ASYNCMESH_API asyncmesh_status_t asyncmesh_port_release(asyncmesh_port_t* port,
                                                        uint64_t token) ASYNCMESH_NOEXCEPT;
/* What was sent is still delivered while the mesh lives, also to an end that opens later (of up to
 * 64 closed ports per peer); the other end learns of the close behind it. Lent messages become
 * invalid. No concurrent use. */
ASYNCMESH_API void asyncmesh_port_close(asyncmesh_port_t* port) ASYNCMESH_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* ASYNCMESH_ASYNCMESH_H */
