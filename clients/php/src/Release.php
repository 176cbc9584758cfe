<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Throw it to give the job back unprocessed, with no failure recorded where the backend can do that. */
class Release extends \Exception
{
    public function __construct(public readonly ?string $reason = null)
    {
        parent::__construct($reason ?? '');
    }
}
