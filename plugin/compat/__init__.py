"""Fixes that let fairseq 0.12 run on today's torch and numpy, and fail in one clear sentence.

fairseq imports ``--user-dir`` while it builds its argument parser: before it reads a checkpoint,
before it wraps a model for several processes, and in each worker process at the top of main. So
everything here is in time.

There are many modules because each fixes one kind of fault, is a row of docs/fairseq.md, and goes
when fairseq no longer has that fault.
"""

from . import (
    batches,
    checkpoint_errors,
    commands,
    files,
    flags,
    full_disk,
    inputs,
    loading,
    overrides,
    patience,
    precision,
    processes,
    pruning,
    runtime,
    vocabulary,
    warm_start,
)

__all__ = ["apply"]

_FIXES = (
    commands.end_with_one_sentence,
    loading.allow_checkpoint_types,
    loading.trust_own_broadcast,
    loading.restore_meters_only,
    loading.unpack_safely,
    loading.keep_names_out_of_the_shell,
    flags.evaluate_nothing,
    overrides.check_overrides,
    flags.check_best,
    flags.check_criterion,
    flags.check_numbers,
    flags.check_named_files,
    runtime.allow_ddp_on_cpu,
    runtime.find_dropped_layers,
    processes.join_processes,
    runtime.keep_freed_memory,
    runtime.flush_tiny_moments,
    runtime.average_weights_alone,
    runtime.restore_numpy_long,
    runtime.log_each_line_once,
    runtime.silence_noise,
    batches.keep_last_batch,
    batches.resume_with_same_batches,
    batches.shuffle_after_curriculum,
    batches.keep_training_iterator,
    batches.count_real_batches,
    patience.remember_patience,
    patience.skip_nan,
    batches.stop_at_exit,
    files.write_safely,
    files.clean_leftovers,
    full_disk.explain_curves,
    full_disk.explain_log,
    checkpoint_errors.explain_checkpoints,
    pruning.prune_one_side,
    vocabulary.remember_vocabularies,
    flags.complete_help,
    flags.complete_validation,
    flags.complete_criterion,
    flags.remember_languages,
    precision.check_precision,
    inputs.explain_data,
    inputs.explain_sentences,
    inputs.join_once,
    inputs.translate_nothing_to_nothing,
    warm_start.start_from_other_attentions,
)


def apply() -> None:
    """Apply all fixes; calling it again changes nothing."""
    for fix in _FIXES:
        fix()
