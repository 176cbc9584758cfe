<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Throw it to give the job back unprocessed, with no failure recorded where the backend can do that. */
class Release extends \Exception
{
    /** @param ?float $after seconds for which ojs-init holds the job before it goes back, 30 at most */
    public function __construct(public readonly ?string $reason = null, public readonly ?float $after = null)
    {
        Retry::checkAfter($after);
        parent::__construct($reason ?? '');
    }
}
