# A worker as a Nomad job: nomad job run examples/deploy/ojs-worker.nomad.hcl
# The image has ENTRYPOINT ["/ojs-init", "--"] and the worker's program as CMD.
job "ojs-worker" {
  type = "service"

  update {
    # A new worker is healthy before an old one is told to end.
    max_parallel     = 1
    canary           = 1
    auto_promote     = true
    auto_revert      = true
    health_check     = "checks"
    min_healthy_time = "10s"
  }

  group "worker" {
    count = 2

    network {
      mode = "bridge"
      port "health" {
        to = 8081
      }
    }

    service {
      name     = "ojs-worker"
      provider = "nomad"
      port     = "health"
      check {
        name     = "ready"
        type     = "http"
        path     = "/readyz"
        interval = "5s"
        timeout  = "1s"
      }
    }

    task "worker" {
      driver = "docker"

      # The client's max_kill_timeout, 30s by default, has to allow it. Else Nomad cuts it, without a word to the container.
      kill_timeout = "60s"
      kill_signal  = "SIGTERM"

      config {
        image           = "registry.example.com/ojs-worker:1.0.0"
        ports           = ["health"]
        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]
        mount {
          type   = "tmpfs"
          target = "/tmp"
          tmpfs_options {
            size = 67108864
          }
        }
      }

      env {
        OJS_URL                      = "http://backend.example.com:8080"
        OJS_SHUTDOWN_GRACE_PERIOD    = "50s"
        OJS_TERMINATION_GRACE_PERIOD = "60s"
        OJS_AUTH_TOKEN_FILE          = "${NOMAD_SECRETS_DIR}/token"
      }

      # nomad var put nomad/jobs/ojs-worker token=...
      template {
        destination = "secrets/token"
        data        = "{{ with nomadVar \"nomad/jobs/ojs-worker\" }}{{ .token }}{{ end }}"
        # ojs-init reads the file again by itself.
        change_mode = "noop"
        # The user of the image reads it.
        perms = "0444"
      }

      resources {
        cpu    = 200
        memory = 256
      }
    }
  }
}
