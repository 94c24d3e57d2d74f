"""What the ranks measured, as one result per job, a table, a JSON document and a picture."""
import math

SCHEMA_VERSION = 1


def summarise(job, ranks):
    """One result of a job from its ranks' results; fails loudly where the replicas do not hold one model."""
    for stage in {r['stage'] for r in ranks}:
        prints = {r['fingerprint'] for r in ranks if r['stage'] == stage}
        if len(prints) != 1:
            raise RuntimeError(f'{job.way.name}: the replicas of stage {stage} do not end with one model')
    last = next(r for r in ranks if r['val_loss'] is not None)
    if not math.isfinite(last['val_loss']):
        raise FloatingPointError(f'{job.way.name}: the validation loss is {last["val_loss"]}')
    wall = max(r['wall_s'] for r in ranks)

    def share(field):
        return sum(r[field] / r['wall_s'] for r in ranks) / len(ranks)

    def rounds(field):
        return sum(r['averager'][field] for r in ranks)

    return dict(val_loss=last['val_loss'], val_ppl=math.exp(last['val_loss']), tokens=last['tokens'], wall_s=wall, updates=job.updates,
                averaging_fraction=share('averaging_s'), blocked_pp_fraction=share('blocked_s'),
                bytes_dp=sum(r['bytes_dp'] for r in ranks), bytes_pp=sum(r['bytes_pp'] for r in ranks),
                rounds_started=rounds('rounds_started'), rounds_applied=rounds('rounds_applied'), rounds_skipped=rounds('rounds_skipped'),
                wire=job.wire, lr=job.way.lr, micro_batches=job.way.micro_batches, averaging=job.way.averaging, optimiser=job.way.optimiser,
                delay=max(r['delay'] for r in ranks), curve=last['curve'])


def document(results, job, transports, calibration):
    """The JSON document: one entry per way, and what they share."""
    return dict(results, schema_version=SCHEMA_VERSION, link=job.link, transports=transports, seed=job.seed,
                steps=results['async']['updates'] if 'async' in results else job.updates, shape=vars(job.shape), calibration=calibration)


_COLUMNS = [('validation loss', 'val_loss', '{:.4f}'), ('perplexity', 'val_ppl', '{:.3f}'), ('peak learning rate', 'lr', '{:g}'),
            ('micro-batches/update', 'micro_batches', '{:d}'), ('updates', 'updates', '{:d}'),
            ('tokens', 'tokens', '{:,d}'), ('wall clock s', 'wall_s', '{:.1f}'), ('in averaging', 'averaging_fraction', '{:.1%}'),
            ('blocked in pipeline', 'blocked_pp_fraction', '{:.1%}'), ('MB data axis', 'bytes_dp', '{:.1f}'),
            ('MB pipeline axis', 'bytes_pp', '{:.1f}'), ('rounds started', 'rounds_started', '{:d}'),
            ('rounds applied', 'rounds_applied', '{:d}'), ('rounds skipped', 'rounds_skipped', '{:d}'), ('delay in updates', 'delay', '{:d}')]


def table(results):
    """One row per quantity, one column per way."""
    names = list(results)
    lines = [f'{"":22s}' + ''.join(f'{name:>14s}' for name in names)]
    for title, field, form in _COLUMNS:
        values = [results[name][field] * (1e-6 if field.startswith('bytes') else 1) for name in names]
        lines.append(f'{title:22s}' + ''.join(f'{form.format(value):>14s}' for value in values))
    return '\n'.join(lines)


def loss_at(curve, seconds):
    """Validation loss of a curve at a wall-clock time, linear between evaluations; None before the first."""
    before = None
    for point in curve:
        if point['seconds'] >= seconds:
            if before is None:
                return None
            part = (seconds - before['seconds']) / (point['seconds'] - before['seconds'])
            return before['val_loss'] + part * (point['val_loss'] - before['val_loss'])
        before = point
    return before['val_loss'] if before else None


def plot(results, path, title):
    """PNG: validation loss against tokens and against wall clock."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), sharey=True)
    for name, result in results.items():
        losses = [p['val_loss'] for p in result['curve']]
        axes[0].plot([p['tokens'] for p in result['curve']], losses, marker='o', markersize=3, label=name.replace('_', '-'))
        axes[1].plot([p['seconds'] for p in result['curve']], losses, marker='o', markersize=3, label=name.replace('_', '-'))
    axes[0].set(xlabel='tokens', ylabel='validation loss (nats per byte)')
    axes[1].set(xlabel='wall clock, s (evaluation excluded)')
    for axis in axes:
        axis.grid(alpha=.3)
        axis.legend()
    perplexity = axes[1].secondary_yaxis('right', functions=(lambda v: v, lambda v: v))
    perplexity.set_ylabel('perplexity')
    perplexity.yaxis.set_major_formatter(lambda value, _: f'{math.exp(value):.2f}')
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
