# frozen_string_literal: true

module OjsWorker
  VERSION = "0.2.0"
end
