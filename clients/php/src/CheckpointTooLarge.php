<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Steps, positions and state of a job are more than 65536 bytes of JSON. The job fails for good.
 */
final class CheckpointTooLarge extends Discard
{}
