<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** Throw it to fail the job for good: another attempt would not help. */
class Discard extends Failure
{}
