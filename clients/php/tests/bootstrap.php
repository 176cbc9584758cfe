<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';
require __DIR__ . '/FakeInit.php';
require __DIR__ . '/FakeBackend.php';
require __DIR__ . '/RecordingLogger.php';
