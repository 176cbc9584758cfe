<?php

declare(strict_types=1);

namespace Ojs\Worker;

/** The backend did not take a job. The code is the HTTP status, or 0 if there was no answer. */
final class EnqueueFailed extends OjsError
{}
