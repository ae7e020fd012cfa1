mod sampler;
