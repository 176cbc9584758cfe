<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * The arguments of a job do not fit its handler. The job fails for good, because each attempt has
 * the same ones.
 */
final class InvalidArgs extends Discard
{
    public function __construct(string $message)
    {
        parent::__construct($message, 'invalid_args');
    }
}
