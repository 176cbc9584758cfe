# frozen_string_literal: true

require_relative "lib/ojs_worker/version"

Gem::Specification.new do |spec|
  spec.name = "ojs-worker"
  spec.version = OjsWorker::VERSION
  spec.summary = "A worker for the Open Job Spec that runs under ojs-init"
  spec.description = "Takes jobs from ojs-init over a Unix socket and runs a job class or a block for each. " \
                     "Enqueues jobs, also those of ActiveJob. No dependencies."
  spec.authors = ["The ojs-init authors"]
  spec.license = "Apache-2.0"
  spec.required_ruby_version = ">= 3.1"
  spec.files = Dir.chdir(__dir__) { Dir["lib/**/*.rb", "sig/**/*.rbs", "README.md", "LICENSE"] }
  spec.require_paths = ["lib"]
  # `homepage`, `source_code_uri`, `bug_tracker_uri` and `changelog_uri` belong here once the project
  # has a public address.
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
