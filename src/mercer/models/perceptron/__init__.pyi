from mercer.models.perceptron.model import KernelPerceptron as KernelPerceptron
