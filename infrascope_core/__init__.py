"""The science of InfraScope: run files in, states, patterns and anomalies out. Never imports dagster."""
