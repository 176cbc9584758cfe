<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** What is to be kept of a job's steps and rows is more than 64 KiB of JSON. The job fails for good. */
final class CheckpointTooLarge extends Discard
{
    public function __construct(string $message)
    {
        parent::__construct($message, type: 'CheckpointTooLarge');
    }
}
