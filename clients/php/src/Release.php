<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Throw it to give the job back unprocessed; no failure is recorded where the backend can do that.
 */
class Release extends \Exception
{
    /**
     * @param ?float $after seconds for which ojs-init holds the job before it goes back; ojs-init
     *        allows 30 at most
     */
    public function __construct(public readonly ?string $reason = null, public readonly ?float $after = null)
    {
        parent::__construct($reason ?? '');
    }
}
