<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Steps, positions and state of a job are more than 65536 bytes of JSON, or a checkpoint is more than
 * `worker.max_frame`. The job fails for good.
 */
final class CheckpointTooLarge extends Discard
{}
