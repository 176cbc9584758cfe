<?php

declare(strict_types=1);

namespace Ojs\Worker;

/**
 * Steps or rows differ from those with which the job began. The job fails for good, because it
 * cannot go on.
 */
final class StepsChanged extends Discard
{}
