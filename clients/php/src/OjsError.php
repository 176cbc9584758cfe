<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** An error that this library throws outside of jobs. */
class OjsError extends \RuntimeException
{}
