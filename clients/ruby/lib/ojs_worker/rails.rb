# frozen_string_literal: true

require "ojs_worker"
require "ojs_worker/active_job"

module OjsWorker
  # A worker in a Rails application:
  #
  #     require_relative "config/environment"
  #     require "ojs_worker/rails"
  #
  #     worker = OjsWorker::Worker.new
  #     OjsWorker::Rails.install(worker)
  #     worker.run(processes: 2)
  module Rails
    # Load the application, so that forked processes share it. Run each job within the application's
    # reloader, which gives connections back and resets `CurrentAttributes`. Run all of ActiveJob.
    # @param worker [Worker]
    # @param application [Rails::Application]
    def self.install(worker, application = ::Rails.application)
      application.eager_load! unless application.config.eager_load || application.config.cache_classes == false
      worker.middleware { |_job, &handler| application.reloader.wrap(&handler) }
      ActiveJob.install(worker)
    end
  end
end
