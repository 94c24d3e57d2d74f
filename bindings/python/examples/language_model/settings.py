"""The three ways, and what each is told. What they were chosen by: perf/training/README.md."""
from dataclasses import asdict, dataclass, field

from .model import Shape

DEFAULT_LINK = '150Mbit,1ms'


@dataclass
class Way:
    """One way to train the model: how the pipeline runs, how replicas are kept together, how the optimiser is set."""
    name: str
    mode: str                     # of the stages: opportunistic, deterministic, synchronous
    lr: float = 3e-3              # peak; best of 1.5e-3, 3e-3, 6e-3 for every way (grid.py, 600 updates)
    micro_batches: int = 1        # per update
    in_flight: int = 0            # per stage; 0: the least
    averaging: dict = field(default_factory=dict)
    optimiser: dict = field(default_factory=dict)


@dataclass
class Job:
    """Everything one run of one way needs; travels to the workers as JSON."""
    way: Way
    shape: Shape
    updates: int
    seed: int = 0
    link: str = 'none'
    engine: str = 'auto'
    tls: str = ''
    data: str = ''
    evaluations: int = 8
    validation_batches: int = 24
    wire: str = 'bfloat16'        # what activations and gradients between stages travel as; all ways alike
    slow_replica: float = 1.0     # replica 1 computes this many times slower
    live: bool = True
    checkpoint: bool = False      # write the final weights

    @property
    def micro_batches(self):
        return self.updates * self.way.micro_batches

    def to_json(self):
        return asdict(self)

    @classmethod
    def from_json(cls, values):
        return cls(**dict(values, way=Way(**values['way']), shape=Shape(**values['shape'])))


def optimiser_settings(updates, look_ahead=1):
    """beta1 and psi follow the planned length: the look-ahead's own warm-up takes 1/psi updates."""
    long_run = updates >= 12000
    return dict(look_ahead=look_ahead, beta1=.99 if long_run else .9, psi=max(.004, 60. / max(1, updates)))


def ways(updates):
    """The product's defaults, the same library used synchronously, and asynchrony done naively."""
    return {
        'async': Way('async', 'opportunistic', averaging=dict(fraction=.1, window=4, rule='ema'), optimiser=optimiser_settings(updates)),
        'sync': Way('sync', 'synchronous', micro_batches=1, optimiser=optimiser_settings(updates)),
        'async_naive': Way('async_naive', 'deterministic', averaging=dict(fraction=.05, window=10, rule='average', mode='deterministic'),
                           optimiser=optimiser_settings(updates, look_ahead=0)),
    }
